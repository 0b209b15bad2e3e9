// A picture in its own resolution: zoom with the wheel, two fingers, a double click or Z; drag to
// move it.

const MAX_SCALE = 16; // times the size that fits
let current = null; // the figure that Z zooms

export function watchZoom(figure) {
  const image = figure.querySelector("img");
  if (!image) return;
  const view = { figure, image, scale: 1, x: 0, y: 0 };
  const pointers = new Map();
  current = view;
  figure.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(view, view.scale * Math.exp(-event.deltaY / (event.deltaMode ? 25 : 400)), event.clientX, event.clientY);
  }, { passive: false });
  figure.addEventListener("dblclick", (event) => toggle(view, event.clientX, event.clientY));
  figure.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    figure.setPointerCapture(event.pointerId);
  });
  figure.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    if (pointers.size === 2) {
      const other = [...pointers.values()].find((one) => one.pointerId !== event.pointerId);
      const distance = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
      zoom(view, (view.scale * distance(event)) / distance(before), (event.clientX + other.clientX) / 2, (event.clientY + other.clientY) / 2);
    } else if (view.scale > 1) {
      view.x += event.clientX - before.clientX;
      view.y += event.clientY - before.clientY;
      place(view);
    }
    pointers.set(event.pointerId, event);
  });
  for (const end of ["pointerup", "pointercancel"]) figure.addEventListener(end, (event) => pointers.delete(event.pointerId));
}

// Z: from fitting to the picture's own pixels, and back.
export function toggleZoom() {
  if (!current?.figure.isConnected) return false;
  const box = current.figure.getBoundingClientRect();
  toggle(current, box.left + box.width / 2, box.top + box.height / 2);
  return true;
}

function toggle(view, x, y) {
  const shownWidth = view.image.getBoundingClientRect().width / view.scale;
  const fittingWidth = Math.min(shownWidth, (view.image.getBoundingClientRect().height / view.scale) * (view.image.naturalWidth / Math.max(1, view.image.naturalHeight)));
  zoom(view, view.scale > 1.01 ? 1 : Math.max(2.5, view.image.naturalWidth / Math.max(1, fittingWidth)), x, y);
}

// The point under the pointer stays where it is.
function zoom(view, newScale, clientX, clientY) {
  const scale = Math.min(MAX_SCALE, Math.max(1, newScale));
  const box = view.figure.getBoundingClientRect();
  const [x, y] = [clientX - box.left - box.width / 2, clientY - box.top - box.height / 2];
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  place(view);
}

function place(view) {
  const box = view.figure.getBoundingClientRect();
  const most = (side) => (side * (view.scale - 1)) / 2;
  view.x = Math.max(-most(box.width), Math.min(most(box.width), view.x));
  view.y = Math.max(-most(box.height), Math.min(most(box.height), view.y));
  view.image.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.scale})`;
  view.figure.classList.toggle("zoomed", view.scale > 1.01);
}
