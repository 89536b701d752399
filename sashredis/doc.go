// Package sashredis limits rates across machines: a fleet of processes shares one count, kept in
// Redis or Valkey, with the answers of package sash.
package sashredis
