package main

import (
	"errors"
	"log"

	"github.com/gofiber/fiber/v3"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
)

func main() {
	limiter := newLimiter()
	defer limiter.Close()
	log.Fatal(newApp(limiter).Listen(":8080"))
}

// Each account has 100 requests an hour, and 5 of them may be for reports.
func newLimiter() *httplimit.Limiter {
	byAccount := fiberlimit.By(func(c fiber.Ctx) (string, bool) { return fiber.Locals[string](c, "account"), true })
	return httplimit.Must(httplimit.New(
		httplimit.Policy{Name: "api", Limits: []sash.Limit{sash.PerHour(100)}, Key: byAccount},
		httplimit.Policy{Name: "reports", Pattern: "GET /api/reports", Limits: []sash.Limit{sash.PerHour(5)}, Key: byAccount},
		httplimit.WithPathFolding(), // fiber serves /API/reports/ as /api/reports
	))
}

func newApp(limiter *httplimit.Limiter) *fiber.App {
	app := fiber.New(fiber.Config{ErrorHandler: answer})
	app.Use(authenticate, fiberlimit.New(limiter, fiberlimit.WithNext(isHealth), fiberlimit.WithDenied(slowDown)))
	app.Get("/health", func(c fiber.Ctx) error { return c.SendString("well") })
	api := app.Group("/api")
	api.Get("/hello", func(c fiber.Ctx) error { return c.SendString("hello, " + fiber.Locals[string](c, "account")) })
	api.Get("/reports", func(c fiber.Ctx) error { return c.SendString("all is well") })
	return app
}

func authenticate(c fiber.Ctx) error {
	fiber.Locals(c, "account", c.Get("X-Account")) // yours checks a token
	return c.Next()
}

func isHealth(c fiber.Ctx) bool { return c.Path() == "/health" }

// slowDown leaves the answer to the ErrorHandler.
func slowDown(fiber.Ctx, httplimit.Denial) error {
	return fiber.NewError(fiber.StatusTooManyRequests, "slow down")
}

func answer(c fiber.Ctx, err error) error {
	status := fiber.StatusInternalServerError
	if known := new(fiber.Error); errors.As(err, &known) {
		status = known.Code
	}
	return c.Status(status).JSON(fiber.Map{"message": err.Error()})
}
