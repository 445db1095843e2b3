package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports come in blocks of portBlock, from firstPort up to the range that the system takes
// the ports of outgoing connections from (32768 on Linux). In that range a port can be taken
// between the moment that a test chooses it and the moment that a server listens there.
// scripts/e2e has the ports from 30000.
const (
	firstPort = 20_000
	lastPort  = 29_999
	portBlock = 8
)

// FreePorts returns the first of n ports of 127.0.0.1, in a row, where nobody listens. No
// other test gets them until this one ends.
func FreePorts(tb testing.TB, n int) int {
	tb.Helper()
	first, release, err := ReservePorts(n)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(release)
	return first
}

// FreeAddress returns an address of 127.0.0.1 where nobody listens, as FreePorts does.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprint("127.0.0.1:", FreePorts(tb, 1))
}

// ReservePorts returns the first of n free ports, as FreePorts does. No test gets them until
// release is called.
func ReservePorts(n int) (first int, release func(), err error) {
	if n >= portBlock {
		return 0, nil, fmt.Errorf("%d ports in a row: a test gets at most %d", n, portBlock-1)
	}
	for range 1000 {
		first := firstPort + portBlock*rand.IntN((lastPort+1-firstPort)/portBlock)
		// The last port of a block is never handed out: a socket there keeps the block, also from other processes.
		kept, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", first+portBlock-1))
		if err != nil {
			continue
		}
		if err := tryPorts(first, n); err != nil {
			_ = kept.Close()
			continue
		}
		return first, func() { _ = kept.Close() }, nil
	}
	return 0, nil, fmt.Errorf("no %d ports in a row are free between %d and %d", n, firstPort, lastPort)
}

// tryPorts listens at n ports for a moment.
func tryPorts(first, n int) error {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			return err
		}
		_ = l.Close()
	}
	return nil
}
