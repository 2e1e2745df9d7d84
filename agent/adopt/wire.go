package adopt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// Folder holds the socket and the state files; it is root's alone.
	Folder = "/run/holdfast"
	// Socket is where the agent listens.
	Socket = Folder + "/agent.sock"
	// Timeout bounds Adopt as a whole, whatever the other end does.
	Timeout = 10 * time.Second

	usual      = 16 << 10 // a record is about 8 kB, and grows with the ranges of plugin.json
	maxRequest = 1 << 20
	maxReply   = 16 << 10
)

// reply is ok or a refusal, never both.
type reply struct {
	OK      bool     `json:"ok,omitempty"`
	Refusal *Refusal `json:"refusal,omitempty"`
}

// send writes a message: four bytes of length, big-endian, and that much JSON.
func send(w io.Writer, body []byte, limit int) error {
	if len(body) > limit {
		return fmt.Errorf("a message of %d bytes is longer than %d", len(body), limit)
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func sendReply(w io.Writer, r reply) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return send(w, body, maxReply)
}

// receive reads a message. What a length merely claims beyond what is usual is not allocated.
func receive(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if int64(length) > int64(limit) {
		return nil, fmt.Errorf("%w: of %d bytes, more than %d", errMessage, length, limit)
	}
	var body bytes.Buffer
	body.Grow(min(int(length), usual) + bytes.MinRead)
	if _, err := io.CopyN(&body, r, int64(length)); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// errMessage means that what was sent isn't a message; it is told apart from a connection that failed.
var errMessage = errors.New("not a message")

func receiveRequest(r io.Reader) (Request, error) {
	body, err := receive(r, maxRequest)
	if err != nil {
		return Request{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	request, err := decode(body)
	if err != nil {
		return Request{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return request, nil
}

// receiveReply returns nil for an ok, a *Refusal, or what kept either from being read.
func receiveReply(r io.Reader) error {
	body, err := receive(r, maxReply)
	switch {
	case errors.Is(err, errMessage):
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	var got reply
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Errorf("%w: %w: %w", ErrAnswer, errMessage, err)
	}
	switch {
	case got.OK && got.Refusal == nil:
		return nil
	case !got.OK && got.Refusal != nil && got.Refusal.Code != "" && got.Refusal.Says != "":
		return got.Refusal
	}
	return fmt.Errorf("%w: neither yes nor no", ErrAnswer)
}
