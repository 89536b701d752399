package echo4limit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v4"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
)

// A download costs its bytes. Each client has ten an hour.
func ExampleMiddleware() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:   "downloads",
		Limits: []sash.Limit{sash.PerHour(10)},
		Key:    httplimit.ByAddress(),
		Unit:   "content-bytes",
		Settle: httplimit.SettleBytes(),
	}))
	defer limiter.Close()

	e := echo.New()
	e.GET("/files/:name", func(c echo.Context) error {
		return c.String(http.StatusOK, "content")
	}, echo4limit.Middleware(limiter))

	for range 3 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/files/a", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}
