package lock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Attributes that golang.org/x/sys does not name: include/uapi/linux/netfilter/nf_tables.h.
const (
	chainFlags     = 10 // NFTA_CHAIN_FLAGS
	flowtableTable = 1  // NFTA_FLOWTABLE_TABLE
	flowtableName  = 2  // NFTA_FLOWTABLE_NAME
	setHandle      = 16 // NFTA_SET_HANDLE
	setType        = 19 // NFTA_SET_TYPE
	setCount       = 20 // NFTA_SET_COUNT

	dumpInterrupted = 0x10 // NLM_F_DUMP_INTR
)

// readTries bounds how often a reading is begun anew because somebody changed a table meanwhile.
const readTries = 8

var errChanging = errors.New("the tables change faster than they can be read; try again")

// Record reads what the kernel holds of the lock, all of one generation. It fails with ErrNotLocked.
func (n *Namespace) Record() (record Record, err error) {
	if err := n.begin(); err != nil {
		return Record{}, err
	}
	defer func() { err = n.end("read the lock", err) }()
	if record, err = n.read(); err != nil {
		return Record{}, err
	}
	return record.sealed(), nil
}

// Verify is Record, then Compare: nil, ErrNotLocked, ErrDiffers with the first difference named, or what kept it from knowing. The
// record has to be of this namespace, in this boot.
//
// Where no transaction was since the record was made, there is nothing to read: what Changed says of another Namespace, a record
// says of itself. So the agent need not read again what the plugin has just read. A Namespace asks for that before anything else it
// does, when no lease can have been lent yet; later the number alone decides nothing.
func (n *Namespace) Verify(recorded Record) error {
	act := fmt.Sprintf("verify the lock in netns %q", n.path)
	if same, err := n.unchangedSince(recorded); same || err != nil {
		return wrap(act, err)
	}
	kernel, err := n.Record()
	if err != nil {
		return err
	}
	return wrap(act, recorded.Compare(kernel))
}

func (n *Namespace) unchangedSince(recorded Record) (same bool, err error) {
	if recorded.Generation == 0 {
		return false, nil
	}
	if err := n.begin(); err != nil {
		return false, err
	}
	defer func() { err = n.end("look for changes", err) }()
	if n.readAt != 0 || n.commits != 0 {
		return false, nil
	}
	now, err := n.generation()
	if err != nil || now != recorded.Generation {
		return false, err
	}
	n.readAt, n.commitsThen = now, n.commits
	return true, nil
}

// Changed reports whether anybody but this Namespace may have changed any table since it last read the lock (Apply, Record, Verify). It
// costs one short exchange, where Verify takes a dozen long ones: the kernel counts the transactions of a namespace
// (net/netfilter/nf_tables_api.c: nf_tables_commit), so that false is a proof. True asks for Verify.
func (n *Namespace) Changed() (changed bool, err error) {
	if err := n.begin(); err != nil {
		return true, err
	}
	defer func() { err = n.end("look for changes", err) }()
	now, err := n.generation()
	return err != nil || n.readAt == 0 || now-n.readAt != n.commits-n.commitsThen, err
}

func (n *Namespace) read() (Record, error) {
	for range readTries {
		before, err := n.generation()
		if err != nil {
			return Record{}, err
		}
		record, err := n.readOnce()
		if err != nil && !errors.Is(err, errChanging) {
			return Record{}, err
		}
		after, genErr := n.generation()
		if genErr != nil {
			return Record{}, genErr
		}
		if err == nil && before == after {
			n.readAt, n.commitsThen = after, n.commits
			record.Generation = after
			record.sort()
			return record, nil
		}
	}
	return Record{}, errChanging
}

// generation counts the transactions of the namespace.
func (n *Namespace) generation() (uint32, error) {
	answers, err := n.ask(unix.NFT_MSG_GETGEN, 0)
	if err != nil {
		return 0, fmt.Errorf("read the generation: %w", err)
	}
	for _, answer := range answers {
		if id := be32(answer.get(unix.NFTA_GEN_ID)); id != 0 {
			return id, nil
		}
	}
	return 0, errors.New("read the generation: the kernel gave none")
}

// locked reports whether the table exists.
func (n *Namespace) locked() (bool, error) {
	_, err := n.ask(unix.NFT_MSG_GETTABLE, 0, name(unix.NFTA_TABLE_NAME, Table))
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

func (n *Namespace) readOnce() (Record, error) {
	var r Record
	tables, err := n.ask(unix.NFT_MSG_GETTABLE, 0, name(unix.NFTA_TABLE_NAME, Table))
	if errors.Is(err, unix.ENOENT) {
		return Record{}, fmt.Errorf("%w: %w", ErrNotLocked, unix.ENOENT)
	}
	if err != nil {
		return Record{}, fmt.Errorf("table: %w", err)
	}
	for _, t := range tables {
		r.Flags = be32(t.get(unix.NFTA_TABLE_FLAGS))
	}
	var errs [4]error
	r.Chains, errs[0] = n.readChains()
	r.Sets, errs[1] = n.readSets()
	r.Objects, errs[2] = n.readNames(unix.NFT_MSG_GETOBJ, unix.NFTA_OBJ_TABLE, unix.NFTA_OBJ_NAME, unix.NFTA_OBJ_TYPE)
	r.Flowtables, errs[3] = n.readNames(unix.NFT_MSG_GETFLOWTABLE, flowtableTable, flowtableName, 0)
	return r, errors.Join(errs[:]...)
}

func (n *Namespace) readChains() ([]RecordedChain, error) {
	// The kernel lists chains by family alone.
	chains, err := n.ask(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
	if err != nil {
		return nil, fmt.Errorf("chains: %w", err)
	}
	answers, err := n.ask(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, name(unix.NFTA_RULE_TABLE, Table))
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	rules := map[string][]RecordedRule{}
	for _, r := range answers {
		addRule(rules, r)
	}
	var out []RecordedChain
	for _, c := range chains {
		if c.is(unix.NFTA_CHAIN_TABLE, Table) {
			recorded := chainOf(c)
			recorded.Rules = rules[recorded.Name]
			out = append(out, recorded)
		}
	}
	return out, nil
}

// chainOf is one chain without its rules.
func chainOf(c attrs) RecordedChain {
	return RecordedChain{
		Name:       c.text(unix.NFTA_CHAIN_NAME),
		Definition: c.only(unix.NFTA_CHAIN_HOOK, unix.NFTA_CHAIN_POLICY, unix.NFTA_CHAIN_TYPE, chainFlags).bytes(),
	}
}

// addRule puts one of the table's rules behind the others of its chain.
func addRule(rules map[string][]RecordedRule, r attrs) {
	if r.is(unix.NFTA_RULE_TABLE, Table) {
		chain := r.text(unix.NFTA_RULE_CHAIN)
		rules[chain] = append(rules[chain], RecordedRule{Expressions: maskCounters(r.get(unix.NFTA_RULE_EXPRESSIONS))})
	}
}

func (n *Namespace) readSets() ([]RecordedSet, error) {
	sets, err := n.ask(unix.NFT_MSG_GETSET, unix.NLM_F_DUMP, name(unix.NFTA_SET_TABLE, Table))
	if err != nil {
		return nil, fmt.Errorf("sets: %w", err)
	}
	var out []RecordedSet
	for _, s := range sets {
		recorded := setOf(s)
		if recorded.Name != setTicket && recorded.Name != setAlive {
			elements, err := n.elements(recorded.Name)
			if err != nil {
				return nil, fmt.Errorf("set %s: %w", recorded.Name, err)
			}
			for _, e := range elements {
				recorded.Elements = append(recorded.Elements, e.bytes())
			}
		}
		out = append(out, recorded)
	}
	return out, nil
}

func setOf(s attrs) RecordedSet {
	return RecordedSet{Name: s.text(unix.NFTA_SET_NAME), Definition: s.without(unix.NFTA_SET_TABLE, unix.NFTA_SET_NAME, unix.NFTA_SET_ID,
		unix.NFTA_SET_PAD, unix.NFTA_SET_USERDATA, setHandle, setType, setCount).bytes()}
}

func (n *Namespace) elements(set string) ([]attrs, error) {
	answers, err := n.ask(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP,
		name(unix.NFTA_SET_ELEM_LIST_TABLE, Table), name(unix.NFTA_SET_ELEM_LIST_SET, set))
	if err != nil {
		return nil, err
	}
	var out []attrs
	for _, answer := range answers {
		if out, err = appendElements(out, answer); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func appendElements(out []attrs, answer attrs) ([]attrs, error) {
	list, err := attributes(answer.get(unix.NFTA_SET_ELEM_LIST_ELEMENTS))
	if err != nil {
		return nil, err
	}
	for _, element := range list {
		parts, err := attributes(element.data)
		if err != nil {
			return nil, err
		}
		out = append(out, parts)
	}
	return out, nil
}

// readNames lists objects of the table: their names and, where a type is asked for, its number.
func (n *Namespace) readNames(message int, tableAttr, nameAttr, typeAttr uint16) ([]string, error) {
	answers, err := n.ask(message, unix.NLM_F_DUMP, name(tableAttr, Table))
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return nil, nil // a kernel without flowtables holds none
	}
	if err != nil {
		return nil, fmt.Errorf("objects: %w", err)
	}
	var out []string
	for _, answer := range answers {
		if answer.text(tableAttr) != Table {
			continue
		}
		text := answer.text(nameAttr)
		if typeAttr != 0 {
			text = objectText(text, be32(answer.get(typeAttr)))
		}
		out = append(out, text)
	}
	return out, nil
}
