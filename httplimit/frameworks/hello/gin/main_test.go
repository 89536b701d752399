package main

import (
	"io"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/seed-30da4c49/sash/httplimit/frameworks/hello"
)

func TestHello(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultWriter = io.Discard // the lines of gin.Default
	limiter := newLimiter()
	defer limiter.Close()
	hello.Serve(newRouter(limiter)).Check(t)
}
