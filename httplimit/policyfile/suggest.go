package policyfile

import "strings"

// suggestion returns a question whether the one of names was meant by name that is nearest to it,
// or "" if none is near.
func suggestion(name string, names []string) string {
	const longest = 32
	if len(name) > longest {
		return ""
	}
	nearest, least := "", 1+max(1, len(name)/3)
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); len(n) <= longest && d < least {
			nearest, least = n, d
		}
	}
	if nearest == "" {
		return ""
	}
	return ", did you mean " + quote(nearest) + "?"
}

// distance returns how many bytes must be inserted, deleted or replaced to make b of a, or
// neighbours swapped (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
