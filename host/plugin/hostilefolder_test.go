package plugin

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestFIFOInLiveFolder has a FIFO come into the folder of a running server, in place of each file
// of a module. Nobody writes into it. The registry goes on, the module that ran keeps running, and
// the list says why.
func TestFIFOInLiveFolder(t *testing.T) {
	for _, name := range []string{"guard.wasm", "guard.toml", "guard.wasm.sig", "guard.wasm.zst"} {
		t.Run(name, func(t *testing.T) {
			w := openWorld(t)
			w.change("guard.wasm", rejecting("a").wasm(t))
			w.want("guard reject a")
			_ = os.Remove(w.file(name))
			if err := syscall.Mkfifo(w.file(name), 0o644); err != nil {
				t.Fatal(err)
			}
			w.look()
			w.want("guard reject a")
			if strings.HasSuffix(name, ".wasm") || strings.HasSuffix(name, ".toml") {
				w.wantRefused("guard", "not a regular file")
			}
			w.remove(name)
			w.change("guard.wasm", rejecting("b").wasm(t))
			w.want("guard reject b")
		})
	}
}

// TestChangingFileInLiveFolder has a module and its side-car change while the registry looks at
// them, again and again. The module that ran keeps running, until both files are whole again.
func TestChangingFileInLiveFolder(t *testing.T) {
	w := openWorld(t)
	first, second := rejecting("a").wasm(t), rejecting("b").wasm(t)
	w.change("guard.wasm", first)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // as a careless program does: in place
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			n := i * 37 % len(second)
			_ = os.WriteFile(w.file("guard.wasm"), second[:n], 0o644)
			_ = os.WriteFile(w.file("guard.toml"), []byte("mode = \"enfo"[:i%12]), 0o644)
		}
	}()
	for range 20 {
		w.look()
		w.want("guard reject a")
	}
	close(stop)
	<-stopped
	w.drop("guard.toml", []byte(`mode = "enforce"`))
	w.change("guard.wasm", second)
	w.want("guard reject b")
	w.wantTaken("guard")
}
