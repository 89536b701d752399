// Package frameworks mounts the limiters of package httplimit in gin, echo, fiber and chi and under
// gorilla/mux, and holds what their clients see against net/http. It has only tests. The adapters
// are modules of their own, so that each user requires one framework.
package frameworks
