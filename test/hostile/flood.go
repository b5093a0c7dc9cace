package hostile

import (
	"sync"
	"time"
)

// Flood has send take a flood's frames, so many a second, until an error of it, which
// is its to tell, or until stop. That returns how many were sent.
func Flood(perSecond int, frame Frame, send func(frame []byte) error) (stop func() int) {
	end, done := make(chan struct{}), make(chan int, 1)
	go func() {
		sent := 0
		defer func() { done <- sent }()
		began := time.Now()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			for due := int(time.Since(began).Seconds() * float64(perSecond)); sent < due; sent++ {
				if send(frame(uint32(sent))) != nil {
					return
				}
			}
		}
	}()
	return sync.OnceValue(func() int { close(end); return <-done })
}
