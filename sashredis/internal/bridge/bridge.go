// Package bridge gives the tests of the adapters what package sashredis does not export.
//
// Package sashredis imports this package and sets its variables when it is initialized. So the
// types of sashredis cannot be named here: a variable that returns one says any.
package bridge

// Script returns the *sashredis.Script with that text.
var Script func(text string) any
