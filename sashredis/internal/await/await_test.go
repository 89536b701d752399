package await_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-30da4c49/sash/sashredis/internal/await"
)

type call func() await.Result

func (c call) Make() await.Result { return c() }

// A late context is past its deadline, but not done yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

var errClient = errors.New("i/o timeout")

func TestDo_ReturnsHowTheCallEnded(t *testing.T) {
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, ctx := range map[string]context.Context{
		"never ends": context.Background(), "may end": cancellable,
	} {
		reply, err := await.Do(ctx, call(func() await.Result { return await.Result{Reply: "a", Answered: true} }))
		assert.NoError(t, err, name)
		assert.Equal(t, "a", reply, name)
		_, err = await.Do(ctx, call(func() await.Result { return await.Result{Err: errClient} }))
		assert.Equal(t, errClient, err, name)
	}
}

func TestDo_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended, goOn := make(chan bool), make(chan bool)
	_, err := await.Do(ctx, call(func() await.Result {
		cancel()
		<-goOn
		close(ended)
		return await.Result{}
	}))
	assert.ErrorIs(t, err, context.Canceled)
	close(goOn)
	<-ended // the goroutine ends with the call
}

func TestDo_MakesNoCallOnceTheContextIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := await.Do(ctx, call(func() await.Result { panic("called") }))
	assert.ErrorIs(t, err, context.Canceled)
}

func TestDo_NeedsNoGoroutineIfNothingEndsTheCall(t *testing.T) {
	// In another goroutine, a panic would end the test.
	assert.PanicsWithValue(t, "called", func() {
		_, _ = await.Do(context.Background(), call(func() await.Result { panic("called") }))
	})
}

func TestDo_FailuresOfTheClientAreThoseOfAContextThatIsOver(t *testing.T) {
	_, err := await.Do(late{context.Background()}, call(func() await.Result { return await.Result{Err: errClient} }))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorIs(t, err, errClient)
}

func TestDo_ContextsOfOtherCallsAreNotItsOwn(t *testing.T) {
	for _, other := range []error{context.Canceled, context.DeadlineExceeded} {
		_, err := await.Do(context.Background(), call(func() await.Result { return await.Result{Err: other} }))
		assert.NotErrorIs(t, err, other)
		assert.ErrorContains(t, err, other.Error())
	}
}

func TestDo_AnswersOfTheServerAreKeptThoughTheContextIsOver(t *testing.T) {
	answer := errors.New("WRONGTYPE")
	_, err := await.Do(late{context.Background()}, call(func() await.Result {
		return await.Result{Err: answer, Answered: true}
	}))
	assert.Equal(t, answer, err)
}
