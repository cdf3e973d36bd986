// The demo, as a newcomer sees it. With PICTURES its third act becomes the README's pictures.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { join } from 'node:path';

import { images, open, Site, sleep, until } from './site.mjs';

const site = new Site();
let page;

before(async () => {
  const browser = await site.browser(); // which takes its time, and the first act does not wait
  const demo = site.process(['serve', '--traffic', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0'], { cwd: site.dir });
  const [, admin] = await demo.says(/admin on (http:\S+)/);
  page = await open(browser, admin);
});
after(() => site.stop());

const caption = () => page.locator('#strip .caption').textContent();

test('a caption says which act is played', async () => {
  await page.waitForSelector('#strip .caption');
  assert.match(await caption(), /^Act 1 of 3: /);
  await until('free, pro and enterprise are seen', async () => await page.locator('.shares li').count() === 3);
});

test('pictures of the third act', { skip: !process.env.PICTURES, timeout: 180_000 }, async () => {
  const frames = [];
  const frame = async () => {
    const path = join(site.dir, `frame-${String(frames.length).padStart(3, '0')}.png`);
    await page.screenshot({ path, clip: { x: 0, y: 0, width: page.viewportSize().width, height: 560 } });
    frames.push(path);
  };
  const act = (n) => until(`act ${n}`, async () => (await caption()).startsWith(`Act ${n}`), 90);
  await act(2);
  await sleep(30_000);
  for (let third = 0; third < 26;) { // the end of the flood, and the return
    await frame();
    if ((await caption()).startsWith('Act 3')) third++;
    await sleep(1000);
  }
  frames.splice(0, frames.length - 34);
  execFileSync('/usr/bin/convert', ['-delay', '50', '-loop', '0', ...frames, '-resize', '900x', '+dither', '-colors', '48', '-layers', 'optimize', join(images, 'demo.gif')]);
});
