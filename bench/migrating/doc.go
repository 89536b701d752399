// Package migrating runs what the guide for users of other limiters says: what such a limiter does, and what sash
// does in its place. It has only tests.
package migrating
