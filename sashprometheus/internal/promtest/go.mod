// Not published: tests of sashprometheus and its dashboard.
module github.com/seed-30da4c49/sash/sashprometheus/internal/promtest

go 1.25.0

require (
	github.com/VictoriaMetrics/metricsql v0.84.0
	github.com/prometheus/client_golang v1.23.2
	github.com/prometheus/client_model v0.6.2
	github.com/seed-30da4c49/sash v0.1.0
	github.com/seed-30da4c49/sash/sashredis v0.1.0
	github.com/stretchr/testify v1.11.1
	go.yaml.in/yaml/v2 v2.4.2
)

require (
	github.com/VictoriaMetrics/metrics v1.34.0 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/prometheus/common v0.66.1 // indirect
	github.com/prometheus/procfs v0.16.1 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/seed-30da4c49/sash/sashprometheus v0.1.0
	github.com/valyala/fastrand v1.1.0 // indirect
	github.com/valyala/histogram v1.2.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
