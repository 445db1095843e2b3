// Command khatru is a relay of the real khatru with one of its stores, for tests of sync. It prints the
// address that it listens on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/fiatjaf/eventstore"
	"github.com/fiatjaf/eventstore/badger"
	"github.com/fiatjaf/eventstore/lmdb"
	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/fiatjaf/khatru"
	"github.com/nbd-wtf/go-nostr"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "khatru:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("store", "slicestore", "`store`: badger, lmdb or slicestore")
	dir := flag.String("dir", "", "`folder` of the store")
	listen := flag.String("listen", "127.0.0.1:0", "`address`")
	negentropy := flag.Bool("negentropy", false, "compare (NIP-77)")
	flag.Parse()
	var store eventstore.Store
	switch *name {
	case "badger":
		store = &badger.BadgerBackend{Path: *dir}
	case "lmdb":
		store = &lmdb.LMDBBackend{Path: *dir}
	case "slicestore":
		store = &slicestore.SliceStore{}
	default:
		return fmt.Errorf("there is no store %q", *name)
	}
	if err := store.Init(); err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer store.Close()
	relay := khatru.NewRelay()
	relay.Log = log.New(os.Stderr, "", 0)
	relay.Negentropy = *negentropy
	relay.StoreEvent = append(relay.StoreEvent, func(ctx context.Context, e *nostr.Event) error {
		if err := store.SaveEvent(ctx, e); !errors.Is(err, eventstore.ErrDupEvent) {
			return err
		}
		return nil
	})
	relay.QueryEvents = append(relay.QueryEvents, store.QueryEvents)
	relay.DeleteEvent = append(relay.DeleteEvent, store.DeleteEvent)
	relay.ReplaceEvent = append(relay.ReplaceEvent, store.ReplaceEvent)
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Println(l.Addr())
	return http.Serve(l, relay)
}
