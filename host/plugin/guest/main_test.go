package guest

import (
	"os"
	"testing"

	"talon/host/plugin/plugintest"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }
