package plugintest

import (
	"path"
	"testing"
)

// TestSourcesOf: what tests a module is made of the packages that package plugin imports, and of no others.
func TestSourcesOf(t *testing.T) {
	root, err := root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := sourcesOf(root, "talon/host/plugin", "host/plugin")
	if err != nil {
		t.Fatal(err)
	}
	folders := make(map[string]bool)
	for _, file := range files {
		folders[path.Dir(file)] = true
	}
	for folder, want := range map[string]bool{
		"host": true, "host/plugin": true, "host/plugin/guest": true, "host/plugin/meter": true, "internal/wave": true,
		"host/web": false, "host/daemon": false, "sdk/abi": false,
	} {
		if folders[folder] != want {
			t.Errorf("files of %s are among them: %t", folder, !want)
		}
	}
	if key, err := testerKey(); err != nil || len(key) != 64 {
		t.Errorf("%q, %v", key, err)
	}
}
