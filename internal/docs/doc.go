// Package docs checks the documents and comments of sash:
//   - Each command in them runs something.
//   - The tests, files and headings that they name exist.
//   - The Go code in the documents compiles.
//   - No doc comment sends its reader to a file.
//
// It contains tests only.
package docs
