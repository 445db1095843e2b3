package simclock

import (
	"slices"
	"testing"
)

// Events happen in the order of their times, those of one time in the order in which they were
// queued, also by an event of that time; the others wait.
func TestClock(t *testing.T) {
	c := New(100)
	var got []int
	note := func(n int) func() { return func() { got = append(got, n) } }
	c.At(130, note(4))
	c.After(20, func() {
		got = append(got, 2)
		c.After(0, note(3))
	})
	c.At(110, note(1))
	c.At(120, note(2))
	c.At(131, note(5))
	c.RunUntil(130)
	if want := []int{1, 2, 2, 3, 4}; !slices.Equal(got, want) || c.Now() != 130 || c.Next() != 131 {
		t.Errorf("%v at %d, then %d; want %v", got, c.Now(), c.Next(), want)
	}
	if c.Step(); got[len(got)-1] != 5 || c.Now() != 131 || c.Next() != Never {
		t.Errorf("%v at %d, then %d", got, c.Now(), c.Next())
	}
}

// An alarm rings once for what was asked for before, and again when it is set again.
func TestAlarm(t *testing.T) {
	c := New(100)
	var rung []int64
	a := c.NewAlarm(func() { rung = append(rung, c.Now()) })
	a.Set(150)
	a.Set(170) // it rings before
	a.Set(140)
	a.Set(Never)
	c.RunUntil(200)
	a.Set(190)
	c.RunUntil(300)
	if want := []int64{140, 200}; !slices.Equal(rung, want) {
		t.Errorf("it rings at %v, want %v", rung, want)
	}
}
