package tomlschema

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "1d12h": 36 * time.Hour, "2m30s": 150 * time.Second, "1.5h": 90 * time.Minute, "250ms": 250 * time.Millisecond,
	} {
		d, err := ParseDuration(text)
		if err != nil || time.Duration(d) != want {
			t.Errorf("%q: %v, %v", text, time.Duration(d), err)
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Errorf("%q is written as %q, which reads as %v, %v", text, d.String(), time.Duration(again), err)
		}
	}
	for _, text := range []string{"", "5", "h", "5 h", "-1h", "1h5", "1y", "1e9d", "99999d", "..h", "1h ", "\x00"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q reads as %v", text, time.Duration(d))
		}
	}
}

func FuzzDuration(f *testing.F) {
	f.Add("1d12h3m4s5ms")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 || time.Duration(d) > MaxDuration {
			t.Fatalf("%q reads as %v", text, time.Duration(d))
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%q is written as %q", text, d.String())
		}
	})
}
