package main

import (
	"errors"
	"log"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"
)

func main() { log.Fatal(newApp().Listen(":8080")) }

// limit admits that number of requests an hour, of each account.
func limit(requests int) fiber.Handler {
	return limiter.New(limiter.Config{
		Next:              isHealth,
		Max:               requests,
		Expiration:        time.Hour,
		KeyGenerator:      func(c fiber.Ctx) string { return fiber.Locals[string](c, "account") },
		LimitReached:      slowDown,
		LimiterMiddleware: limiter.SlidingWindow{},
	})
}

func newApp() *fiber.App {
	app := fiber.New(fiber.Config{ErrorHandler: answer})
	app.Use(authenticate, limit(100))
	app.Get("/health", func(c fiber.Ctx) error { return c.SendString("well") })
	api := app.Group("/api")
	api.Get("/hello", func(c fiber.Ctx) error { return c.SendString("hello, " + fiber.Locals[string](c, "account")) })
	api.Get("/reports", limit(5), func(c fiber.Ctx) error { return c.SendString("all is well") })
	return app
}

func authenticate(c fiber.Ctx) error {
	fiber.Locals(c, "account", c.Get("X-Account"))
	return c.Next()
}

func isHealth(c fiber.Ctx) bool { return c.Path() == "/health" }

func slowDown(fiber.Ctx) error { return fiber.NewError(fiber.StatusTooManyRequests, "slow down") }

func answer(c fiber.Ctx, err error) error {
	status := fiber.StatusInternalServerError
	if known := new(fiber.Error); errors.As(err, &known) {
		status = known.Code
	}
	return c.Status(status).JSON(fiber.Map{"message": err.Error()})
}
