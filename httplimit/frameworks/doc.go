// Package frameworks tests package httplimit under routers and frameworks. It mounts the
// middleware at the places that the documentation of httplimit lists. It is a module of its
// own, so that sash does not require these frameworks.
package frameworks
