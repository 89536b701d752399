// Package clienttest tests package sashredis with the clients of Redis, with servers and with an
// embedded store. It has only tests, so that users of sashredis require one client.
package clienttest
