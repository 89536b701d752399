package sashredis

import "testing"

// A goroutine may begin an examination after close has canceled it.
func TestExaminer_BeginsNothingOnceItIsClosed(t *testing.T) {
	var e examiner
	e.init()
	e.cancel() // as close does before it waits
	e.start(func() { t.Error("an examination has begun") })
	e.close()
	e.start(func() { t.Error("an examination has begun after close") })
}
