package recent

import "testing"

func TestMap(t *testing.T) {
	m := Map[int, string]{Size: 4}
	if m.Has(1) {
		t.Error("an empty map has something")
	}
	m.Add(1, "one", 2)
	m.Add(1, "uno", 2) // costs nothing more
	m.Add(2, "two", 2)
	if v, aging, ok := m.Get(1); v != "uno" || aging || !ok {
		t.Errorf("1: %q %t %t", v, aging, ok)
	}
	m.Add(3, "three", 2) // the first two are the older generation now
	if v, aging, ok := m.Get(2); v != "two" || !aging || !ok {
		t.Errorf("2: %q %t %t", v, aging, ok)
	}
	m.Add(2, "two", 2)
	m.Add(4, "four", 1)
	for key, want := range map[int]bool{1: false, 2: true, 3: true, 4: true} {
		if m.Has(key) != want {
			t.Errorf("has %d: %t", key, !want)
		}
	}
	m.Remove(2)
	m.Remove(4)
	if m.Has(2) || m.Has(4) || !m.Has(3) {
		t.Error("removed are 2 and 4")
	}
	m.Clear()
	if m.Has(3) {
		t.Error("there is something after Clear")
	}
}
