# The loops of development. CONTRIBUTING.md says how long each takes.

.PHONY: quick full race docs ci

quick: # the root package and its arithmetic, with fewer trials of the model tests
	go test -short -timeout 2m . ./internal/window

full: # all tests of this module, and of its documents
	go test -timeout 30m ./...

race: # the README's test command
	.ci/run "The README's test command"

docs: # that the documents and comments say what is there
	go test ./internal/docs

ci: # every step of .ci/run, or one: make ci STEP="32 bits"
	.ci/run $(if $(STEP),"$(STEP)")
