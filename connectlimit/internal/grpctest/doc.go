// Package grpctest calls package connectlimit with clients and servers of grpc-go. It has only
// tests, so that users of Connect do not require grpc-go.
package grpctest
