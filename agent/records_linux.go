package agent

import (
	"crypto/sha256"
	"sync"

	"github.com/holdfast-cni/holdfast/lock"
)

// records keeps one copy of what was recorded of many pods alike: a record takes some eight kilobytes, and pods of one plugin.json
// have the same.
type records struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*counted
}

type counted struct {
	record lock.Record
	users  int
}

// get parses a record, or returns the one that was parsed of the same bytes. release must be called.
func (r *records) get(data []byte) (record *lock.Record, release func(), err error) {
	key := sha256.Sum256(data)
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.all[key]
	if kept == nil {
		parsed, err := lock.ParseRecord(data)
		if err != nil {
			return nil, nil, err
		}
		kept = &counted{record: parsed}
		if r.all == nil {
			r.all = map[[sha256.Size]byte]*counted{}
		}
		r.all[key] = kept
	}
	kept.users++
	return &kept.record, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if kept.users--; kept.users == 0 {
			delete(r.all, key)
		}
	}, nil
}
