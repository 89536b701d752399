// Package frameworks tests package httplimit under routers and frameworks, in the
// places where the documentation of httplimit mounts the middleware. It is a module of
// its own so that these frameworks are no requirements of sash.
package frameworks
