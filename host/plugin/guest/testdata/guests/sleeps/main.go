// Command sleeps is a policy for tests that gives other goroutines a turn, and sleeps.
package main

import (
	_ "embed"
	"runtime"
	"time"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, policy.Func(admit))

func main() {}

func admit(policy.Input) policy.Verdict {
	turns := 0
	done := make(chan struct{})
	go func() {
		turns++
		close(done)
	}()
	runtime.Gosched()
	runtime.GC()
	<-done
	began := time.Now()
	time.Sleep(30 * time.Minute)
	if turns != 1 || time.Since(began) < 30*time.Minute {
		return policy.Reject("error", "no time has passed").By("sleeps")
	}
	return policy.Accept().By("sleeps")
}
