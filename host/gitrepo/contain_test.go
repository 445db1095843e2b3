package gitrepo

import "testing"

// The caller of Write gets a panic of the goroutine that scans, which nobody else could contain.
func TestPanicInScan(t *testing.T) {
	s := &PackScan{next: make(chan []byte), idle: make(chan struct{}), done: make(chan struct{})}
	go s.scan(func() error { panic("planted") })
	defer func() {
		if p := recover(); p != "planted" {
			t.Errorf("Write panics with %v", p)
		}
	}()
	<-s.done
	_, err := s.Write([]byte("PACK"))
	t.Errorf("Write returns %v", err)
}
