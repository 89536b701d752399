package fiberlimit_test

import (
	"errors"
	"fmt"
	"io"
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

// Each account has two requests an hour, and is refused by the ErrorHandler of the app. A route of probes is not
// limited.
func ExampleWithDenied() {
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{
			Name:   "accounts",
			Limits: []sash.Limit{sash.PerHour(2)},
			Key:    fiberlimit.By(func(c fiber.Ctx) (string, bool) { return fiber.Locals[string](c, "account"), true }),
		},
		httplimit.WithPathFolding(),
	))
	defer limiter.Close()

	app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
		return c.Status(fiber.StatusTooManyRequests).JSON(fiber.Map{"message": err.Error()})
	}})
	app.Use(
		func(c fiber.Ctx) error {
			fiber.Locals(c, "account", c.Get("X-Account")) // yours checks a token
			return c.Next()
		},
		fiberlimit.New(limiter,
			fiberlimit.WithNext(func(c fiber.Ctx) bool { return c.Path() == "/health" }),
			fiberlimit.WithDenied(func(fiber.Ctx, httplimit.Denial) error { return errors.New("slow down") }),
		),
	)
	hello := func(c fiber.Ctx) error { return c.SendString("hello") }
	app.Get("/", hello)
	app.Get("/health", hello)

	for _, path := range []string{"/", "/health", "/", "/", "/health"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-Account", "a")
		response, err := app.Test(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(response.Body)
		fmt.Println(path, response.StatusCode, string(body), err)
	}
	// Output:
	// / 200 hello <nil>
	// /health 200 hello <nil>
	// / 200 hello <nil>
	// / 429 {"message":"slow down"} <nil>
	// /health 200 hello <nil>
}
