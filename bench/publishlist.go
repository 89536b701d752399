package main

// measurements returns all that is published, in the order in which it is measured. The whole takes about
// a quarter of an hour on two cores.
func measurements() []measurement {
	const (
		speed   = "go run ./bench -experiments speed -modes throughput -dists uniform "
		quickly = "go run ./bench -quick -experiments "
		clock   = speed + "-calls Allow -answers admitted -goroutines 1 -keys 1,1k,1M -peers go-limiter"
		few     = quickly + "speed -modes throughput -dists uniform -calls Allow -answers admitted -goroutines 1 -peers go-limiter"
	)
	return []measurement{
		{
			gives:    []string{"speed-allow", "speed-take", "allow-one", "allow-million", "default-one", "default-million", "other-one", "other-million"},
			commands: []string{speed + "-calls Allow,Take -answers admitted,denied -goroutines 1,2 -keys 1,1k,1M"},
			quick:    []string{quickly + "speed -modes throughput -dists uniform -calls Allow,Take -answers admitted,denied"},
			read:     readSpeed,
		},
		{
			gives:    []string{"speed-ten-million"},
			commands: []string{speed + "-calls Allow -answers admitted -goroutines 1,2 -keys 10M -rounds 3"},
			quick:    []string{quickly + "speed -modes throughput -dists uniform -calls Allow -answers admitted -keys 1k"},
			read:     readTenMillion,
		},
		{
			commands: []string{speed + "-calls Allow -answers admitted -goroutines 1 -keys 1,10,100,1k,10k,100k,1M,10M -rounds 3"},
			quick:    []string{quickly + "speed -modes throughput -dists uniform -calls Allow -answers admitted -goroutines 1 -keys 1,10,100"},
			read:     func([]output) (map[string]string, error) { return nil, nil },
			draws:    map[string]string{"speed-keys.svg": "bench/keys.svg"},
		},
		{
			gives:    []string{"clock"},
			commands: []string{clock, "SASH_CLOCK=system " + clock},
			quick:    []string{few, "SASH_CLOCK=system " + few},
			read:     readClocks,
		},
		{
			gives:    []string{"floor"},
			commands: []string{"go run ./bench -experiments floor -keys 1,1k,1M -goroutines 1,2"},
			quick:    []string{quickly + "floor"},
			read:     readFloor,
		},
		{
			gives:    []string{"ratios", "bounds", "key-memory"},
			commands: []string{"go run ./bench -experiments ratios -goroutines 1,2"},
			quick:    []string{quickly + "ratios"},
			read:     readRatios,
		},
		{
			gives:    []string{"memory"},
			commands: []string{"go run ./bench -experiments memory -keys 1M"},
			quick:    []string{quickly + "memory"},
			read:     readMemory,
		},
		{
			gives:    []string{"tail", "tail-worst"},
			commands: []string{"go run ./bench -experiments tail -grow 4M -rate 400_000 -rounds 1"},
			quick:    []string{quickly + "tail"},
			read:     readTail,
		},
		{
			gives:    []string{"waiters"},
			commands: []string{"go run ./bench -experiments waiters"},
			quick:    []string{quickly + "waiters"},
			read:     readWaiters,
		},
		{
			gives:    []string{"lengths", "key-bytes"},
			commands: []string{"go test -count=1 -v -run TestMemory_ByTheLengthOfTheName ."},
			quick:    []string{"go test -short -count=1 -v -run TestMemory_ByTheLengthOfTheName ."},
			read:     readLengths,
		},
		{
			gives:    []string{"flood", "flood-early"},
			commands: []string{"go test -run '^$' -bench Flood -benchtime 1x ./bench"},
			quick:    []string{"go test -short -run '^$' -bench Flood -benchtime 1x ./bench"},
			read:     readFlood,
		},
		{
			gives:    []string{"hostile"},
			commands: []string{"go test -run '^$' -bench Hostile -benchtime 31x ./bench"},
			quick:    []string{"go test -run '^$' -bench Hostile -benchtime 1x ./bench"},
			read:     readHostile,
		},
		{
			gives:    []string{"snapshot"},
			commands: []string{"go test -run '^$' -bench '^Benchmark(Snapshot|Restore)$' -benchtime 5x ."},
			quick:    []string{"go test -run '^$' -bench '^Benchmark(Snapshot|Restore)$' -benchtime 1x ."},
			read:     readSnapshot,
		},
		{
			gives:    []string{"middleware"},
			commands: []string{"go test -run '^$' -bench Middleware -cpu 1 -benchtime 101x ./bench"},
			quick:    []string{"go test -run '^$' -bench Middleware -cpu 1 -benchtime 3x ./bench"},
			read:     readMiddleware,
		},
		{
			gives:    []string{"observers"},
			commands: []string{"go test -run '^$' -bench Observers -cpu 1 -benchtime 3000x ./sashprometheus/internal/promtest"},
			quick:    []string{"go test -run '^$' -bench 'Observers/.*/clients=1$' -cpu 1 -benchtime 3x ./sashprometheus/internal/promtest"},
			read:     readObservers,
		},
		{
			gives: []string{"observe"},
			commands: []string{
				"go test -run '^$' -bench 'Observe$' -cpu 1,2 ./sashprometheus/internal/promtest",
				"go test -run '^$' -bench 'Observe$' -cpu 1,2 ./sashotel/internal/sdktest",
			},
			quick: []string{
				"go test -run '^$' -bench 'Observe$' -cpu 1,2 -benchtime 10x ./sashprometheus/internal/promtest",
				"go test -run '^$' -bench 'Observe$' -cpu 1,2 -benchtime 10x ./sashotel/internal/sdktest",
			},
			read: readObserve,
		},
		{
			gives: []string{"rpc"},
			commands: []string{
				"go test -run '^$' -bench Unary -cpu 1 -benchtime 10000x -count 10 ./grpclimit",
				"go test -run '^$' -bench Interceptor -cpu 1 -benchtime 10000x -count 10 ./connectlimit/internal/grpctest",
			},
			quick: []string{
				"go test -run '^$' -bench Unary -cpu 1 -benchtime 10x -count 2 ./grpclimit",
				"go test -run '^$' -bench Interceptor -cpu 1 -benchtime 10x -count 2 ./connectlimit/internal/grpctest",
			},
			read: readRPC,
		},
		{
			gives:    []string{"fleet", "fleet-floors", "refunds"},
			commands: []string{"go run ./bench/fleet -only hot,known,flood,leases,refunds"},
			quick:    []string{"go run ./bench/fleet -quick -only hot,known,flood,leases,refunds"},
			needs:    []string{"redis-server", "valkey-server"},
			read:     readFleet,
		},
	}
}
