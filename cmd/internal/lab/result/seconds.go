package result

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Seconds is a virtual time since the begin of a run, or a span of it. Its form is a
// number of seconds with up to three decimals; what is finer is cut off.
type Seconds time.Duration

func (s Seconds) Duration() time.Duration { return time.Duration(s) }

// Float returns the number of seconds, to the millisecond.
func (s Seconds) Float() float64 { return float64(s.ms()) / 1000 }

func (s Seconds) ms() int64 { return time.Duration(s).Milliseconds() }

func (s Seconds) String() string {
	n := s.ms()
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%03d", sign, n/1000, n%1000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func (s Seconds) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

func (s *Seconds) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("%.40q is not a number of seconds", text)
	}
	ms := math.Round(f * 1000)
	if math.Abs(ms) > math.MaxInt64/1e7 {
		return fmt.Errorf("%.40q is too many seconds", text)
	}
	*s = Seconds(time.Duration(ms) * time.Millisecond)
	return nil
}

// Since returns the virtual time t of a run that began at begin.
func Since(begin, t time.Time) Seconds { return Seconds(t.Sub(begin)) }
