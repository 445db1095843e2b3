package relaysync

import (
	"context"
	"net"
)

// ConnectBy makes all connections over another network, before Run.
func (s *Sync) ConnectBy(connect func(ctx context.Context, network, address string) (net.Conn, error)) {
	s.dialer.(*netDialer).guard.Connect = connect
}
