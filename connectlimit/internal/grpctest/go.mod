// Not published: tests of connectlimit with grpc-go.
module github.com/seed-30da4c49/sash/connectlimit/internal/grpctest

go 1.25.0

require (
	connectrpc.com/connect v1.21.0
	github.com/seed-30da4c49/sash v0.1.0
	github.com/seed-30da4c49/sash/httplimit/policyfile v0.1.0
	github.com/stretchr/testify v1.11.1
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800
	google.golang.org/grpc v1.84.0
	google.golang.org/protobuf v1.36.11
)

require go.yaml.in/yaml/v4 v4.0.0 // indirect

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/seed-30da4c49/sash/connectlimit v0.1.0
	github.com/seed-30da4c49/sash/grpclimit v0.1.0
	github.com/seed-30da4c49/sash/internal/rpc v0.1.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
