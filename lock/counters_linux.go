package lock

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Counter is what a named counter of the lock has counted since the lock was applied.
type Counter struct {
	Packets, Bytes uint64
}

// Counters returns the lock's counters by name: why packets went no further. Of a namespace without a lock there are none.
func (n *Namespace) Counters() (counters map[string]Counter, err error) {
	if err := n.begin(); err != nil {
		return nil, err
	}
	defer func() { err = n.end("read the counters", err) }()
	answers, err := n.ask(unix.NFT_MSG_GETOBJ, unix.NLM_F_DUMP, name(unix.NFTA_OBJ_TABLE, Table))
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	counters = map[string]Counter{}
	for _, answer := range answers {
		if answer.text(unix.NFTA_OBJ_TABLE) != Table || be32(answer.get(unix.NFTA_OBJ_TYPE)) != unix.NFT_OBJECT_COUNTER {
			continue
		}
		data, err := attributes(answer.get(unix.NFTA_OBJ_DATA))
		if err != nil {
			return nil, fmt.Errorf("counter %s: %w", answer.text(unix.NFTA_OBJ_NAME), err)
		}
		counters[answer.text(unix.NFTA_OBJ_NAME)] = Counter{
			Packets: be64(data.get(unix.NFTA_COUNTER_PACKETS)), Bytes: be64(data.get(unix.NFTA_COUNTER_BYTES)),
		}
	}
	return counters, nil
}

func be64(data []byte) uint64 {
	if len(data) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(data)
}
