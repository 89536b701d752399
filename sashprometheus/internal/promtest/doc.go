// Package promtest tests package sashprometheus and its dashboard, with a parser of PromQL and a
// Prometheus. It has only tests, so that users of sashprometheus do not require the parser.
package promtest
