package board

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// qmpTimeout bounds one QMP exchange. QEMU answers from its main loop, which a
// busy host can hold up for some seconds.
const qmpTimeout = 30 * time.Second

// qmp is a client of QEMU's machine protocol: one command at a time, events
// are read over.
type qmp struct {
	mu   sync.Mutex // one exchange at a time
	conn net.Conn
	r    *bufio.Reader
}

type qmpReply struct {
	Greeting json.RawMessage `json:"QMP"`
	Event    string          `json:"event"`
	Return   json.RawMessage `json:"return"`
	Error    *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

// newQMP takes over conn and negotiates.
func newQMP(conn net.Conn) (*qmp, error) {
	q := &qmp{conn: conn, r: bufio.NewReader(conn)}
	if err := conn.SetDeadline(time.Now().Add(qmpTimeout)); err != nil {
		return nil, err
	}
	greeting, err := q.next()
	if err != nil {
		return nil, err
	}
	if greeting.Greeting == nil {
		return nil, errors.New("qmp: no greeting")
	}
	if _, err := q.do("qmp_capabilities", nil); err != nil {
		return nil, err
	}
	return q, nil
}

func (q *qmp) next() (qmpReply, error) {
	var reply qmpReply
	line, err := q.r.ReadBytes('\n')
	if err != nil {
		return reply, fmt.Errorf("qmp: %w", err)
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return reply, fmt.Errorf("qmp: %w", err)
	}
	return reply, nil
}

// do executes one command and returns what it returned.
func (q *qmp) do(command string, arguments map[string]any) (json.RawMessage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	b, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("qmp: %s: %w", command, err)
	}
	if err := q.conn.SetDeadline(time.Now().Add(qmpTimeout)); err != nil {
		return nil, fmt.Errorf("qmp: %s: %w", command, err)
	}
	if _, err := q.conn.Write(append(b, '\n')); err != nil {
		return nil, fmt.Errorf("qmp: %s: %w", command, err)
	}
	for {
		reply, err := q.next()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", command, err)
		case reply.Error != nil:
			return nil, fmt.Errorf("qmp: %s: %s", command, reply.Error.Desc)
		case reply.Return != nil:
			return reply.Return, nil
		}
	}
}

// monitor executes a command of the human monitor.
func (q *qmp) monitor(line string) (string, error) {
	b, err := q.do("human-monitor-command", map[string]any{"command-line": line})
	if err != nil {
		return "", err
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return "", fmt.Errorf("qmp: %s: %w", line, err)
	}
	return text, nil
}
