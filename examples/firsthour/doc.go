// Package firsthour follows docs/first-hour.md: its test makes the service of the page, step by step, and runs each
// command.
package firsthour
