//go:build yields && !schedules

package hashmap

// maxRounds is the highest round that each loop may reach in these tests. Lock loses a
// round only if the map is resized between its load of the table and its lock.
var maxRounds = map[string]int{"hashMap.lock": 64}
