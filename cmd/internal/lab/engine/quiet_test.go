package engine

import "testing"

// A relay that returns often costs requests each time, in any length of the quiet time. A strategy
// that asks without end makes as many in each half hour.
func TestHalfHours(t *testing.T) {
	const minute = 60_000
	var returns halfHours
	for hour := range int64(9) {
		for range 80 {
			returns.add(hour * 60 * minute)
		}
	}
	if returns.peak != 80 {
		t.Errorf("a relay that returns each hour: %d requests in half an hour, want 80", returns.peak)
	}
	var endless halfHours
	for at := int64(0); at < 540*minute; at += 2000 {
		endless.add(at)
	}
	if endless.peak != 900 {
		t.Errorf("a request every 2 seconds: %d requests in half an hour, want 900", endless.peak)
	}
}
