// There are no signals in a browser.

//go:build !js

package policyfile_test

import (
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// A signal makes a server read its policies again. The counts of policies that stay are kept. A
// file with faults changes nothing.
func Example_reload() {
	var limiter *httplimit.Limiter // of New, with the policies of the same file

	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP)
	reload := func() {
		for range hangUp {
			policies, err := policyfile.Load("limits.yaml")
			if err == nil {
				err = limiter.Reconfigure(policies...)
			}
			if err != nil {
				log.Printf("the limits stay as they are:\n%v", err)
			}
		}
	}
	go reload()
}
