package netwatch

import (
	"testing"

	"gwinit/internal/netdev/netlab"
)

func TestMain(m *testing.M) { netlab.Main(m) }
