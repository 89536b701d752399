// Package docs checks what is written about sash: that each command in the documents
// runs something, that what they name exists, and that doc comments stand by themselves.
// It holds tests only.
package docs
