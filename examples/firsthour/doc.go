// Package firsthour has the test of the page for a first hour with sash: it makes the service of the page, step by
// step, and runs each command.
package firsthour
