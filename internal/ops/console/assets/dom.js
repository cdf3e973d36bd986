// Elements from trees, changed in place: focus, selection and scrolling outlive a drawing.
// Texts become text nodes; nothing is ever parsed as HTML.

const svg = new Set(['svg', 'path', 'circle', 'rect', 'line']);
// These are changed by who uses the page, so what counts is the property.
const properties = new Set(['value', 'checked', 'disabled', 'hidden']);

// h is a tree. Children may be lists, texts, and nothing (null, false, undefined).
// key keeps an element with what it shows; ref is called with the element at each drawing;
// with opaque, the element's children are somebody else's.
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== '') };
}

// render makes parent's children those of the trees, and then calls refs: of elements that
// are in the page, and have a size.
export function render(parent, trees) {
  const refs = [];
  const focused = document.activeElement;
  patch(parent, trees, refs);
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }); // its row has moved
  for (const [ref, node] of refs) ref(node);
}

function patch(parent, trees, refs) {
  const keyed = new Map();
  const loose = new Map();
  for (const node of parent.childNodes) {
    if (node.key !== undefined) keyed.set(node.key, node);
    else if (loose.has(node.nodeName.toLowerCase())) loose.get(node.nodeName.toLowerCase()).push(node);
    else loose.set(node.nodeName.toLowerCase(), [node]);
  }
  let at = parent.firstChild;
  for (const tree of trees) {
    const node = reuse(tree, keyed, loose) ?? create(tree);
    update(node, tree, refs);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function reuse(tree, keyed, loose) {
  if (typeof tree !== 'object') return loose.get('#text')?.shift();
  const key = tree.props.key;
  if (key === undefined) return loose.get(tree.tag)?.shift();
  const node = keyed.get(key);
  keyed.delete(key);
  return node?.nodeName.toLowerCase() === tree.tag ? node : undefined;
}

function create(tree) {
  if (typeof tree !== 'object') return document.createTextNode('');
  const node = svg.has(tree.tag) ? document.createElementNS('http://www.w3.org/2000/svg', tree.tag) : document.createElement(tree.tag);
  node.key = tree.props.key;
  return node;
}

function update(node, tree, refs) {
  if (typeof tree !== 'object') {
    const text = String(tree);
    if (node.nodeValue !== text) node.nodeValue = text;
    return;
  }
  const { props, children } = tree;
  const before = node.props ?? {};
  for (const name of Object.keys(before)) if (!(name in props)) assign(node, name, null, before[name]);
  for (const name of Object.keys(props)) assign(node, name, props[name], before[name]);
  node.props = props;
  if (!props.opaque) patch(node, children, refs);
  if (props.ref) refs.push([props.ref, node]);
}

function assign(node, name, value, before) {
  if (name === 'key' || name === 'ref' || name === 'opaque') return;
  if (properties.has(name)) {
    if (node[name] !== (value ?? '')) node[name] = value ?? '';
  } else if (name === 'style') {
    for (const rule of Object.keys(before ?? {})) if (!value || !(rule in value)) node.style.removeProperty(rule);
    for (const [rule, to] of Object.entries(value ?? {})) if (before?.[rule] !== to) node.style.setProperty(rule, to);
  } else if (name.startsWith('on')) {
    node[name] = value;
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else if (before !== value) {
    node.setAttribute(name, value === true ? '' : value);
  }
}
