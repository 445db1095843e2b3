package testkit

import (
	"net"
	"testing"
)

// TestFreePorts gives each test ports of its own, and those of a test that has ended again.
func TestFreePorts(t *testing.T) {
	const blocks = (lastPort + 1 - firstPort) / portBlock
	t.Run("many", func(t *testing.T) {
		seen := map[int]bool{}
		for range blocks / 4 {
			first := FreePorts(t, portBlock-1)
			if first < firstPort || first+portBlock-1 > lastPort || seen[first] {
				t.Fatalf("port %d: seen before is %v", first, seen[first])
			}
			seen[first] = true
		}
	})
	address := FreeAddress(t)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range blocks {
		t.Run("one", func(t *testing.T) {
			if FreeAddress(t) == address {
				t.Fatalf("%s was given to two", address)
			}
		})
	}
}
