// Package schematest holds the JSON Schema of package policyfile against what the package reads. It
// has only tests, so that users of policyfile do not require a validator.
package schematest
