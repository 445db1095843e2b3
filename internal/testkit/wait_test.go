package testkit

import (
	"testing"
	"time"
)

// bounded is a test whose binary ends at a time.
type bounded struct {
	testing.TB
	at     time.Time
	failed string
}

func (b *bounded) Deadline() (time.Time, bool) { return b.at, true }

func (b *bounded) Fatalf(format string, _ ...any) {
	b.failed = format
	panic(b)
}

func TestEventually(t *testing.T) {
	asked := 0
	Eventually(t, "the third question", func() bool { asked++; return asked == 3 })
	ch := make(chan int)
	go func() { ch <- 7 }()
	if got := Receive(t, "a number", ch); got != 7 || asked != 3 {
		t.Errorf("received %d, asked %d times", got, asked)
	}
	if left := time.Until(Deadline(&bounded{at: time.Now().Add(time.Hour)})); left > time.Hour-margin {
		t.Errorf("waits for %v of an hour", left)
	}
}

// What never happens fails the test, and not only when go test ends all of them.
func TestNever(t *testing.T) {
	for name, wait := range map[string]func(b *bounded){
		"eventually": func(b *bounded) { Eventually(b, "never", func() bool { return false }) },
		"receive":    func(b *bounded) { Receive(b, "never", make(chan int)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := &bounded{TB: t, at: time.Now().Add(margin + 20*time.Millisecond)}
			defer func() {
				if recover() != b || b.failed == "" {
					t.Errorf("%q, want it failed", b.failed)
				}
			}()
			wait(b)
		})
	}
}
