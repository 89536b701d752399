package fiberlimit_test

import (
	"fmt"
	"net/http/httptest"

	"github.com/gofiber/fiber/v3"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
)

// Each customer has 100 tokens a day. What a question has cost is known once it is answered.
func ExampleNew() {
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{
			Name:    "tokens",
			Pattern: "/ask",
			Limits:  []sash.Limit{sash.PerDay(100)},
			Key:     httplimit.ByHeader("X-API-Key"), // that handlers before this one have checked
			Settle:  httplimit.SettleEstimate(),
		},
		httplimit.WithPathFolding(), // fiber serves /ASK/ as /ask
	))
	defer limiter.Close()

	app := fiber.New()
	app.Use(fiberlimit.New(limiter))
	app.Get("/ask", func(c fiber.Ctx) error {
		httplimit.ChargeOf(c.Context(), "tokens").Commit(60)
		return c.SendString("42")
	})

	for range 3 {
		r := httptest.NewRequest("GET", "/ask", nil)
		r.Header.Set("X-API-Key", "a customer")
		response, err := app.Test(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(response.StatusCode)
	}
	// Output:
	// 200
	// 200
	// 429
}
