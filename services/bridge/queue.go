//go:build linux

package bridge

// queue is bytes on their way: a linear buffer that begins at its front again
// whenever it is empty, which is nearly always.
type queue struct {
	buf        []byte
	head, tail int
	clock
	gauge
}

//go:nosplit
//go:norace
func (q *queue) empty() bool { return q.head == q.tail }

//go:nosplit
//go:norace
func (q *queue) len() int { return q.tail - q.head }

func (q *queue) waiting() []byte { return q.buf[q.head:q.tail] }

func (q *queue) reset() {
	q.head, q.tail = 0, 0
	q.forget()
}

// room returns where to put more bytes; empty when the queue is full.
func (q *queue) room() []byte {
	if q.tail == len(q.buf) && q.head > 0 {
		q.tail = copy(q.buf, q.buf[q.head:q.tail])
		q.head = 0
	}
	return q.buf[q.tail:]
}

func (q *queue) full() bool { return q.len() == len(q.buf) }

//go:nosplit
//go:norace
func (q *queue) added(n int) {
	q.tail += n
	if q.armed {
		q.armed, q.left = false, q.len()
	}
	if q.held {
		q.most = max(q.most, q.len())
	}
}

//go:nosplit
//go:norace
func (q *queue) took(n int) {
	if q.head += n; q.head == q.tail {
		q.head, q.tail = 0, 0
	}
	if q.left > 0 {
		q.sampled(n)
	}
}
